/**
 * An estimate of tokens, for those who have no tokenizer of their model at hand.
 *
 * Characters per token differ by a factor of four between kinds of text: 1.3 in Chinese and base64, 1.7 in numbers, 4.6 in
 * tables. So the text is read in pieces as tokenizers read it: words, groups of three digits, blanks, and symbols.
 */

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII
const PIECES = /[A-Za-z]+|\d+|[^\S\n]+|\n+|[\x21-\x7e]|[^\x00-\x7f]/g
const LETTERS_PER_TOKEN = 5.5
/** Of words that no dictionary has, as in base64. */
const RANDOM_LETTERS_PER_TOKEN = 1.5
/** Of a single blank. */
const BLANK_TOKENS = 0.1
/** Tokens of long runs have at most so many. */
const NEWLINES_PER_TOKEN = 8
const BLANKS_PER_TOKEN = 64
const CAMEL_CASE = /^[A-Z]?[a-z]+([A-Z][a-z]+)+$/
const MIXED_CASE = /[a-z][A-Z]|[A-Z]{2,}[a-z]/

/** About as many tokens as o200k has for a text: 0.85 to 1.46 times as many on the kinds of output that were measured. */
export function estimateTokens(text: string): number {
  let tokens = 0
  let isAfterBlank = false
  for (const [piece] of text.matchAll(PIECES)) {
    tokens += tokensOf(piece)
    // The last blank before a word belongs to the word, but before a number it is a token of its own.
    if (isAfterBlank && /^\d/.test(piece)) tokens += 1 - BLANK_TOKENS
    isAfterBlank = /^[^\S\n]/.test(piece)
  }
  return Math.ceil(tokens)
}

function tokensOf(piece: string): number {
  if (/^[A-Za-z]/.test(piece)) {
    const isRandom = piece.length > 2 && MIXED_CASE.test(piece) && !CAMEL_CASE.test(piece)
    return isRandom ? piece.length / RANDOM_LETTERS_PER_TOKEN : Math.max(1, piece.length / LETTERS_PER_TOKEN)
  }
  if (/^\d/.test(piece)) return Math.ceil(piece.length / 3)
  if (piece.startsWith('\n')) return Math.ceil(piece.length / NEWLINES_PER_TOKEN)
  if (/^\s/.test(piece)) return piece.length > 1 ? Math.ceil(piece.length / BLANKS_PER_TOKEN) : BLANK_TOKENS
  return piece.charCodeAt(0) < 0x7f ? 0.95 : 1.1
}

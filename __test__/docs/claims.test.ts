/**
 * Sentences of some pages that say every, everything, all, never, nothing or exactly: claims.md names the tests that try to
 * break each.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { readPage, root } from '../helpers/markdown.js'

const PAGES = [
  'README.md',
  'docs/isolation.md',
  'docs/killing.md',
  'docs/projects.md',
  'docs/races.md',
  'docs/sessions.md',
]
const LIST = '__test__/docs/claims.md'
const ABSOLUTE = /\b(every|everything|all|never|nothing|exactly)\b/i

interface Claim {
  sentence: string
  tests: { file: string; title: string }[]
}

/** The sentences of a page: of its paragraphs, items, headings and rows of tables. Blocks of code have none. */
function sentencesOf(markdown: string): string[] {
  const prose = markdown.replaceAll(/^```.*?^```$/gms, '')
  return prose
    .split(/\n\s*\n|\n(?=\s*(?:[-|#]|\d+\.) ?)/)
    .flatMap((part) => part.replaceAll(/\s+/g, ' ').split(/(?<=[.!?]["*)]*) (?=[^\s|])/))
    .map((sentence) => sentence.replace(/^([-#]+|\d+\.) /, '').trim())
}

/** What is in backquotes is the name of something, and claims nothing. */
function isClaim(sentence: string): boolean {
  return ABSOLUTE.test(sentence.replaceAll(/`[^`]*`/g, ''))
}

/** Reads the list: for each page a heading, with sentences as items, and their tests as items below. */
function readList(markdown: string): Map<string, Claim[]> {
  const [, ...sections] = markdown.split(/^## /m)
  return new Map(
    sections.map((section) => {
      const [page = '', ...lines] = section.trim().split('\n')
      const claims: Claim[] = []
      for (const line of lines) {
        const [, sentence] = /^- (.+)$/.exec(line) ?? []
        const [, file, title] = /^ {2}- `(.+?)`: (.+)$/.exec(line) ?? []
        if (sentence !== undefined) claims.push({ sentence, tests: [] })
        else if (file !== undefined && title !== undefined) claims.at(-1)?.tests.push({ file, title })
        else if (line !== '') throw new Error(`${LIST}: neither a sentence nor a test: ${line}`)
      }
      return [page, claims]
    }),
  )
}

const list = readList(readPage(LIST))

it('the list has exactly these pages', () => {
  expect([...list.keys()].sort()).toEqual(PAGES)
})

describe.each(PAGES)('%s', (page) => {
  const claims = list.get(page) ?? []

  it('has no claim that is not in the list', () => {
    const listed = claims.map(({ sentence }) => sentence)
    const unlisted = sentencesOf(readPage(page)).filter(
      (sentence) => isClaim(sentence) && !listed.includes(sentence),
    )
    expect(
      unlisted,
      `Name a test that tries to break each of these sentences in ${LIST}, or write them without absolute words.`,
    ).toEqual([])
  })

  it('has the claims of the list', () => {
    const sentences = sentencesOf(readPage(page))
    const stale = claims.filter(({ sentence }) => !sentences.includes(sentence) || !isClaim(sentence))
    expect(
      stale.map(({ sentence }) => sentence),
      `${page} no longer has these sentences, or they no longer claim anything: remove them from ${LIST}, or correct them there.`,
    ).toEqual([])
  })

  it('has tests for the claims of the list', () => {
    const missing = claims.flatMap(({ sentence, tests }) =>
      tests.length === 0
        ? [sentence]
        : tests.filter((test) => !exists(test)).map((test) => JSON.stringify(test)),
    )
    expect(
      missing,
      `These sentences have no test, or these tests do not exist: correct their names in ${LIST}.`,
    ).toEqual([])
  })
})

/** Whether the file has the title, as its text says it. */
function exists({ file, title }: Claim['tests'][number]): boolean {
  if (!existsSync(path.join(root, file))) return false
  const source = readPage(file)
  return file.endsWith('.rs')
    ? source.includes(`fn ${title}(`)
    : ["'", '"', '`'].some((quote) => source.includes(quote + title + quote))
}

it('sentences and claims are found in any kind of Markdown', () => {
  const markdown = `# All of it

A first sentence\ncontinues. **Nothing else.** A third? It names \`all\`, and
\`\`\`js
// never
\`\`\`
- an item with
  everything
1. one; exactly
| a row | nothing |
`
  expect(sentencesOf(markdown).filter(isClaim)).toEqual([
    'All of it',
    '**Nothing else.**',
    'an item with everything',
    'one; exactly',
    '| a row | nothing |',
  ])
  expect(sentencesOf(markdown)).toContain('A first sentence continues.')
  expect(sentencesOf(markdown)).toContain('A third?')
})

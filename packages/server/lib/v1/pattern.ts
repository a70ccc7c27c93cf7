/**
 * What a line of a log must contain, in JSON: text, or a regular expression.
 */
import { type Kind, OptionError } from 'nacre/internal'
import { linePattern, MOST_PATTERN_CHARACTERS } from 'nacre/internal/server'
import { anyText } from '../parameters.js'
import { shape } from '../request-json.js'

export const linePatternJson: Kind<string | RegExp, unknown> = {
  read: linePattern,
  json: {
    schema: {
      name: 'Pattern',
      anyOf: [
        { schema: { type: 'string' } },
        { schema: shape({ source: anyText, flags: anyText }, ['source', 'flags']) },
      ],
    },
    rule: 'must be text or a regular expression, like {"source": "ready in \\\\d+", "flags": "i"}',
    decode: patternOf,
  },
  bounds: 'text or a regular expression',
}

function patternOf(json: string | { source: string; flags: string }): string | RegExp {
  if (typeof json === 'string') return json
  // Before its syntax is checked, which takes a time.
  if (json.source.length > MOST_PATTERN_CHARACTERS)
    throw new OptionError('INVALID_OPTION', `must have at most ${MOST_PATTERN_CHARACTERS} characters`)
  try {
    return new RegExp(json.source, json.flags)
  } catch (cause) {
    const { message } = cause as Error
    throw new OptionError('INVALID_OPTION', `is not a regular expression: ${message}`)
  }
}

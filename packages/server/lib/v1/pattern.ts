/**
 * What a line of a log must contain, in JSON: text, or a regular expression.
 */
import { type kinds, OptionError, plans } from 'nacre/internal'

import { anyText } from '../parameters.js'
import { shape } from '../request-json.js'

export const linePatternJson: kinds.Kind<string | RegExp, unknown> = {
  read: plans.linePattern,
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
  if (json.source.length > plans.MOST_PATTERN_CHARACTERS)
    throw new OptionError('INVALID_OPTION', `must have at most ${plans.MOST_PATTERN_CHARACTERS} characters`)
  try {
    return new RegExp(json.source, json.flags)
  } catch (cause) {
    const { message } = cause as Error
    throw new OptionError('INVALID_OPTION', `is not a regular expression: ${message}`)
  }
}

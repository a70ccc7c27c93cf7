/** Rules for the requests to hosts, by method and path. */

import { OptionError } from '../base/errors.js'
import { list, text } from '../schema/constructors.js'
import type { CheckedRequests } from '../schema/isolation-rules.js'
import type { Kind } from '../schema/kind.js'
import { readEntries } from '../schema/read.js'
import { origin } from '../schema/targets.js'

const MAX_HOSTS = 50
const MAX_RULES = 100
const LONGEST_RULE = 256

/** As the engine reads it. */
const RULE = /^(?:(?:allow|deny|ask) )?(?:\*|[A-Z-]+(?:,[A-Z-]+)*) \/[!"$->@-~]*$/
const EXAMPLES = "'GET,HEAD /repos/**', 'deny DELETE /**' or 'ask POST /**'"

const host = origin()
const rules = list(
  text(
    (rule) => rule.length <= LONGEST_RULE && RULE.test(rule),
    `must be methods and a path without a query, at most ${LONGEST_RULE} characters, like ${EXAMPLES}`,
  ),
  MAX_RULES,
  { rule: `must be a list of at most ${MAX_RULES} rules`, bounds: `at most ${MAX_RULES} like ${EXAMPLES}` },
)

/** Rules by the hosts that they are for. */
export const requests: Kind<Record<string, string[]>, CheckedRequests> = {
  read(given, name) {
    const entries = readEntries(given, name, {
      rule: "must be an object like { 'api.example.com': ['GET /**'] }",
    })
    if (entries.length > MAX_HOSTS)
      throw new OptionError('INVALID_OPTION', `${name} must have at most ${MAX_HOSTS} hosts`)
    const checked: CheckedRequests = Object.create(null)
    for (const [key, one] of entries) {
      if (one === undefined) continue
      const known = host.read(key, `a key of ${name}`)
      if (known in checked)
        throw new OptionError(
          'INVALID_OPTION',
          `${name} names the host ${known} twice: put its rules into one list`,
        )
      checked[known] = rules.read(one, `${name}['${key}']`)
    }
    return checked
  },
  json: { schema: { values: { ...rules, json: { schema: { items: { schema: { type: 'string' } } } } } } },
  bounds: `at most ${MAX_HOSTS} hosts with lists of rules`,
}

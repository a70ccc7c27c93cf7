/** Rules for the requests to hosts, by method and path. The engine reads them. */

import { list, text } from '../schema/constructors.js'
import { byHost } from '../schema/targets.js'

const MAX_RULES = 100
const EXAMPLES = "'GET,HEAD /repos/**', 'deny DELETE /**' or 'ask POST /**'"

const rules = list(
  text(() => true, `must be text like ${EXAMPLES}`),
  MAX_RULES,
  { rule: `must be a list of at most ${MAX_RULES} rules`, bounds: `at most ${MAX_RULES} like ${EXAMPLES}` },
)

/** Rules by the hosts that they are for. */
export const requests = byHost(rules, 'lists of rules', "['GET /**']")

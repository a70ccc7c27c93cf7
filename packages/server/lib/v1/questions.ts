/** Questions: whether programs may connect to a host that the rules do not name. */
import { answer, endpoints } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'

export function addV1Questions(define: Define, { backend }: ServerContext): void {
  define({
    ...endpoints.listQuestions,
    summary: 'Lists the questions about hosts that are open, the oldest first.',
    handle: async () => ({ questions: await backend.questions() }),
  })
  define({
    ...endpoints.answerQuestion,
    summary:
      'Answers a question: allows its target for the running command or for the session, or refuses it.',
    body: shape({ answer }, ['answer']),
    errors: ['INVALID_ID'],
    handle: async ({ params, body }) => ({ answered: await backend.answer(params.questionId, body.answer) }),
  })
}

/** Questions whether programs may connect to a host, with a button for each answer. */
import type { Answer } from 'nacre'
import type { SandboxClient } from 'nacre/client'
import { attempt } from './ask.ts'
import { button, el } from './dom.ts'
import type { Asked } from './model.ts'

const ANSWERS: [Answer, string][] = [
  ['once', 'Allow once'],
  ['session', 'Allow for the session'],
  ['deny', 'Deny'],
]

export class QuestionsPanel {
  readonly element = el('section', { id: 'questions', role: 'log', 'aria-label': 'Questions' })
  readonly #client: SandboxClient
  readonly #shown = new Map<string, HTMLElement>()

  constructor(client: SandboxClient) {
    this.#client = client
  }

  /** Adds and removes lines, so that a button under the pointer stays where it is. */
  update(questions: ReadonlyMap<string, Asked>): void {
    for (const [id, line] of this.#shown) {
      if (questions.has(id)) continue
      line.remove()
      this.#shown.delete(id)
    }
    for (const question of questions.values()) {
      if (this.#shown.has(question.id)) continue
      const line = this.#line(question)
      this.#shown.set(question.id, line)
      this.element.append(line)
    }
  }

  #line({ id, sessionId, target }: Asked): HTMLElement {
    const buttons = ANSWERS.map(([answer, label]) =>
      button(label, () => attempt(() => this.#client.answer(id, answer)), {
        'aria-label': `${label}: ${target}`,
      }),
    )
    return el(
      'p',
      { class: 'asks' },
      el('span', { class: 'badge' }, `session ${sessionId} wants to connect to ${target}`),
      el('span', { class: 'buttons' }, ...buttons),
    )
  }
}

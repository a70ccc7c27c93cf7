/** Questions whether programs may connect to a host, with a button for each answer. */
import type { Answer } from 'nacre'
import type { SandboxClient } from 'nacre/client'
import { attempt, notify } from './ask.ts'
import { button, el } from './dom.ts'
import type { Asked } from './model.ts'

const ANSWERS: [Answer, string][] = [
  ['once', 'Allow for this command'],
  ['session', 'Allow for the session'],
  ['deny', 'Deny'],
]

const CLOSED_MS = 3000

export class QuestionsPanel {
  readonly element = el('section', { id: 'questions', role: 'log', 'aria-label': 'Questions' })
  readonly #client: SandboxClient
  readonly #questions: Map<string, Asked>
  readonly #shown = new Map<string, HTMLElement>()

  constructor(client: SandboxClient, questions: Map<string, Asked>) {
    this.#client = client
    this.#questions = questions
  }

  /** A line stays for some time when its question is closed: no button of another one comes under the pointer. */
  update(): void {
    for (const [id, line] of this.#shown) {
      if (this.#questions.has(id)) continue
      this.#shown.delete(id)
      line.classList.replace('asks', 'closed')
      for (const one of line.querySelectorAll('button')) one.disabled = true
      setTimeout(() => line.remove(), CLOSED_MS)
    }
    for (const question of this.#questions.values()) {
      if (this.#shown.has(question.id)) continue
      const line = this.#line(question)
      this.#shown.set(question.id, line)
      this.element.append(line)
    }
  }

  #line({ id, sessionId, target }: Asked): HTMLElement {
    const buttons = ANSWERS.map(([answer, label]) =>
      button(label, () => attempt(() => this.#answer(id, answer)), { 'aria-label': `${label}: ${target}` }),
    )
    return el(
      'p',
      { class: 'asks' },
      el('span', { class: 'badge' }, `session ${sessionId} wants to connect to ${target}`),
      el('span', { class: 'buttons' }, ...buttons),
    )
  }

  async #answer(id: string, answer: Answer): Promise<void> {
    if (await this.#client.answer(id, answer)) return
    notify('Too late: the question is closed.')
    // The event that says so may have come before a list of questions that is older.
    this.#questions.delete(id)
    this.update()
  }
}

/** Questions whether programs may connect to a host, with a button for each answer. */
import type { Answer } from 'nacre'
import type { SandboxClient } from 'nacre/client'
import { attempt, notify } from './ask.ts'
import { button, el, setText } from './dom.ts'
import type { Asked, Model } from './model.ts'

const ANSWERS: [Answer, string, string][] = [
  ['once', 'Allow for this command', 'main'],
  ['session', 'Allow for the session', ''],
  ['deny', 'Deny', ''],
]

const CLOSED_MS = 3000

interface Line {
  element: HTMLElement
  who: HTMLElement
}

export class QuestionsPanel {
  readonly element = el('section', { id: 'questions', role: 'log', 'aria-label': 'Questions' })
  readonly #client: SandboxClient
  readonly #model: Model
  readonly #shown = new Map<string, Line>()

  constructor(client: SandboxClient, model: Model) {
    this.#client = client
    this.#model = model
  }

  /** A line stays for some time when its question is closed: no button of another one comes under the pointer. */
  update(): void {
    const { questions, isLive } = this.#model
    for (const [id, { element }] of this.#shown) {
      if (questions.has(id)) continue
      this.#shown.delete(id)
      element.classList.replace('asks', 'closed')
      for (const one of element.querySelectorAll('button')) one.disabled = true
      setTimeout(() => element.remove(), CLOSED_MS)
    }
    for (const question of questions.values()) {
      let line = this.#shown.get(question.id)
      if (line === undefined) {
        line = this.#line(question)
        this.#shown.set(question.id, line)
        this.element.append(line.element)
      }
      // It can be known later than the question, and the command may end before it.
      if (line.who.textContent === '') setText(line.who, asker(this.#model.askersOf(question.sessionId)))
      for (const one of line.element.querySelectorAll('button')) one.disabled = !isLive
    }
  }

  #line({ id, sessionId, target, request, expiresAt }: Asked): Line {
    const what = request ? `${request.method} ${request.path} of ${target}` : target
    const buttons = ANSWERS.map(([answer, label, look]) =>
      button(label, () => attempt(() => this.#answer(id, answer)), {
        ...{ class: look, 'aria-label': `${label}: ${what}` },
      }),
    )
    const who = el('code', {})
    const element = el(
      'div',
      { class: 'asks' },
      el(
        'p',
        {},
        el('strong', {}, `Session ${sessionId} wants ${request ? 'to send' : 'to connect to'} ${what}`),
        el('span', { class: 'who' }, who, ` Answer by ${expiresAt.toLocaleTimeString()}.`),
      ),
      el('p', { class: 'buttons' }, ...buttons),
    )
    return { element, who }
  }

  async #answer(id: string, answer: Answer): Promise<void> {
    if (await this.#client.answer(id, answer)) return
    notify('Too late: the question is closed.')
    // The event that says so may have come before a list of questions that is older.
    this.#model.questions.delete(id)
    this.update()
  }
}

/** What may have asked; the server knows only the session. */
function asker(names: string[]): string {
  const [first, ...others] = names.map((name) => name.split('\n', 1)[0])
  if (first === undefined) return ''
  return others.length === 0 ? first : `${first} (or ${others.join(', ')})`
}

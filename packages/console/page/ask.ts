/** Questions in a dialog. */
import { button, el } from './dom.ts'

/** Of the button that does it: `danger` ends or loses something. */
type Look = 'main' | 'danger'

/** Resolves with the text, or with undefined when the person cancels. */
export function askText(
  question: string,
  label: string,
  action: string,
  look: Look = 'main',
): Promise<string | undefined> {
  const input = el('input', { type: 'text', maxlength: '200', 'aria-label': label, placeholder: label })
  return ask({ question, action, look, input, answer: () => input.value })
}

/** Resolves with whether the person agrees. */
export async function confirmed(question: string, action: string, look: Look = 'main'): Promise<boolean> {
  return (await ask({ question, action, look, answer: () => true })) ?? false
}

export function askToken(): Promise<string | undefined> {
  const input = el('input', {
    type: 'password',
    'aria-label': 'Token',
    placeholder: 'Token',
    autocomplete: 'off',
  })
  const question = 'This server needs its token.'
  return ask({ question, action: 'Connect', look: 'main', input, answer: () => input.value.trim() })
}

interface Asking<T> {
  question: string
  action: string
  look: Look
  input?: HTMLInputElement
  answer: () => T
}

function ask<T>({ question, action, look, input, answer }: Asking<T>): Promise<T | undefined> {
  return new Promise((resolve) => {
    let result: T | undefined
    const dialog = el('dialog', { 'aria-label': question })
    const agree = () => {
      result = answer()
      dialog.close()
    }
    const form = el('form', {
      onsubmit: (event: Event) => {
        event.preventDefault()
        agree()
      },
    })
    const cancel = button('Cancel', () => dialog.close())
    const submit = el('button', { type: 'submit', class: look }, action)
    form.append(
      el('p', {}, question),
      ...(input ? [input] : []),
      el('p', { class: 'buttons' }, cancel, submit),
    )
    dialog.append(form)
    dialog.addEventListener('close', () => {
      dialog.remove()
      resolve(result)
    })
    document.body.append(dialog)
    dialog.showModal()
  })
}

/** A message for some seconds, which screen readers say. */
export function notify(text: string): void {
  let status = document.querySelector<HTMLElement>('#notice')
  if (status === null) {
    status = el('div', { id: 'notice', role: 'status' })
    document.body.append(status)
  }
  status.textContent = text
  const shown = status
  setTimeout(() => {
    if (shown.textContent === text) shown.textContent = ''
  }, 6000)
}

/** Does something, and shows its error. */
export async function attempt(work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    notify(error instanceof Error ? error.message : String(error))
  }
}

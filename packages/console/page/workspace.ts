/** The changes of a copy-on-write workspace, with their diff, and what can become of them. */
import type { SandboxClient } from 'nacre/client'
import { attempt, confirmed, notify } from './ask.ts'
import { button, el, setText, size } from './dom.ts'

/** Longer diffs are cut. */
const MOST_DIFF_BYTES = 512 * 1024
const MOST_CHANGES = 1000

export class WorkspacePanel {
  readonly element: HTMLElement
  readonly #client: SandboxClient
  readonly #list = el('ul', { class: 'changes' })
  readonly #diff = el('pre', { class: 'diff', tabindex: '0', 'aria-label': 'Difference' })
  readonly #count = el('span')

  constructor(client: SandboxClient) {
    this.#client = client
    this.element = el(
      'section',
      { id: 'workspace', 'aria-label': 'Workspace' },
      el('h2', {}, 'Changes ', this.#count),
      el(
        'p',
        { class: 'buttons' },
        button('Refresh', () => this.refresh()),
        button('Commit', () => attempt(() => this.#commit())),
        button('Discard', () => attempt(() => this.#discard())),
        button('Undo', () => attempt(() => this.#undo())),
      ),
      this.#list,
      this.#diff,
    )
  }

  /** False when the sandbox has no such workspace. */
  async isEnabled(): Promise<boolean> {
    try {
      await this.#client.workspace.info()
      return true
    } catch (error) {
      if ((error as { code?: string }).code === 'WORKSPACE_NOT_ENABLED') return false
      throw error
    }
  }

  refresh(): Promise<void> {
    return attempt(async () => {
      const changes = await this.#client.workspace.changes()
      setText(this.#count, `(${changes.length})`)
      const rows = changes.slice(0, MOST_CHANGES).map((change) => {
        const { path, pathBytes, type, kind } = change
        const bytes = kind === 'file' && type !== 'deleted' ? ` ${size(change.size)}` : ''
        return el(
          'li',
          {},
          button(`${type} ${path}`, () => attempt(() => this.#show(pathBytes))),
          bytes,
        )
      })
      this.#list.replaceChildren(...rows)
    })
  }

  async #show(path: Uint8Array): Promise<void> {
    const patch = await this.#client.workspace.diff({ paths: [path], maxBytes: MOST_DIFF_BYTES })
    const lines = new TextDecoder().decode(patch).split('\n')
    this.#diff.replaceChildren(
      ...lines.map((line) =>
        el('span', { class: line[0] === '+' ? 'new' : line[0] === '-' ? 'old' : '' }, `${line}\n`),
      ),
    )
    this.#diff.focus()
  }

  async #commit(): Promise<void> {
    if (!(await confirmed('Make all changes real?', 'Commit'))) return
    const { applied, skipped } = await this.#client.workspace.commit()
    const left = skipped.length === 0 ? '' : `, ${skipped.length} could not be made real`
    notify(`${applied} changes are real now${left}.`)
    await this.refresh()
  }

  async #discard(): Promise<void> {
    if (!(await confirmed('Take all changes back? Programs that use the files may fail.', 'Discard'))) return
    const { discarded } = await this.#client.workspace.discard()
    notify(`${discarded} changes are gone.`)
    await this.refresh()
  }

  async #undo(): Promise<void> {
    if (!(await confirmed('Take back the last command? All programs of the sandbox end.', 'Undo'))) return
    const { command } = await this.#client.undo()
    notify(`Taken back: ${command}`)
    await this.refresh()
  }
}

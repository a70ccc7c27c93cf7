/** The changes of a copy-on-write workspace, with their diff, and what can become of them. */
import type { Change, Review, ReviewedChange } from 'nacre'
import type { SandboxClient } from 'nacre/client'
import { attempt, confirmed, notify } from './ask.ts'
import { button, el, row, setRows, Tab } from './dom.ts'

/** Longer diffs are cut. */
const MOST_DIFF_BYTES = 512 * 1024
const MOST_CHANGES = 1000
/** So many have their time: each costs a call. */
const MOST_TIMES = 30
/** Of what a commit withholds, because a program of the machine runs it later. */
const LEFT_OUT = 'runs later: commit leaves it out'

/** What a review calls its groups. */
export const GROUPS = {
  ...{ runsLater: 'Runs later', generated: 'Generated', large: 'Large', binary: 'Binary', source: 'Source' },
}

function diff(text: string): HTMLElement {
  const lines = text.replace(/\n$/, '').split('\n')
  return el(
    'pre',
    { class: 'diff', tabindex: '0' },
    ...lines.map((line) =>
      el('span', { class: line[0] === '+' ? 'new' : line[0] === '-' ? 'old' : '' }, `${line}\n`),
    ),
  )
}

export class WorkspacePanel {
  readonly element: HTMLElement
  readonly #client: SandboxClient
  readonly #model: { readonly version: number }
  readonly #list = el('ul', { class: 'rows' })
  readonly tab = new Tab('Changes', () => this.element)
  readonly #undo = button('Undo', () => attempt(() => this.#undoLast()))
  readonly #commit = button('Commit', () => attempt(() => this.#commitAll()), { class: 'main' })
  readonly #discard = button('Discard', () => attempt(() => this.#discardAll()), { class: 'danger' })
  /** What the times and the rows were made from. */
  #looked = ''
  #shown = ''
  /** Of the model, when there was last something to undo or not. */
  #version = -1

  /** `model`: its version changes with everything that happens in the sandbox. */
  constructor(
    client: SandboxClient,
    model: { readonly version: number },
    names: Record<string, string> = { id: 'workspace', 'aria-label': 'Workspace' },
  ) {
    this.#client = client
    this.#model = model
    this.element = el(
      'section',
      names,
      el('h2', {}, 'Changes ', this.tab.number()),
      el('p', { class: 'buttons' }, this.#undo, this.#discard, this.#commit),
      this.#list,
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

  async refresh(): Promise<void> {
    const { version } = this.#model
    const changes = await this.#client.workspace.changes()
    const listed = changes.map(({ path, type, size }) => [path, type, size])
    const looked = JSON.stringify([version, listed])
    if (looked === this.#looked) return
    if (version !== this.#version) this.#undo.disabled = false
    this.#version = version
    const times = await this.#timesOf(changes.slice(0, MOST_TIMES))
    this.#looked = looked
    const shown = JSON.stringify([listed, times])
    if (shown === this.#shown) return
    this.#shown = shown
    this.tab.count = changes.length
    this.#commit.disabled = changes.length === 0
    this.#discard.disabled = changes.length === 0
    const rows = changes.slice(0, MOST_CHANGES).map(({ path, pathBytes, type, kind, size, withheld }, at) =>
      row({
        ...{
          kind: type,
          name: withheld === undefined ? path : `${path} (${LEFT_OUT})`,
          label: `${type} ${path}`,
          time: times[at],
        },
        bytes: kind === 'file' && type !== 'deleted' ? size : undefined,
        act: () => attempt(() => this.#show(path, pathBytes)),
      }),
    )
    if (changes.length > MOST_CHANGES) rows.push(el('li', {}, `and ${changes.length - MOST_CHANGES} more`))
    setRows(this.#list, rows)
  }

  async #timesOf(changes: Change[]): Promise<(Date | undefined)[]> {
    const { path: directory } = await this.#client.workspace.info()
    const time = async ({ path, type }: Change) => {
      if (type === 'deleted') return undefined
      const info = await this.#client.files.stat(`${directory}/${path}`).catch(() => null)
      return info?.modifiedAt
    }
    return Promise.all(changes.map(time))
  }

  async #show(name: string, path: Uint8Array): Promise<void> {
    const { group, change } = await this.#reviewOf(path)
    const hunks = change?.type === 'modified' ? change.hunks : []
    const parts: HTMLElement[] = []
    for (const { id, text } of hunks) {
      const chosen = { hunks: [{ path, ids: [id] }] }
      const settle = (call: () => Promise<unknown>) => async () => {
        dialog.close()
        await call()
        await this.refresh()
      }
      const { workspace } = this.#client
      parts.push(
        diff(text),
        el(
          'p',
          { class: 'buttons' },
          button('Take back', () => attempt(settle(() => workspace.discard(chosen))), { class: 'danger' }),
          button('Commit', () => attempt(settle(() => workspace.commit(chosen))), { class: 'main' }),
        ),
      )
    }
    if (parts.length === 0) {
      const patch = await this.#client.workspace.diff({ paths: [path], maxBytes: MOST_DIFF_BYTES })
      parts.push(diff(new TextDecoder().decode(patch)))
    }
    const dialog: HTMLDialogElement = el(
      'dialog',
      { class: 'wide', 'aria-label': `Difference of ${name}` },
      el('h2', {}, name),
      ...(group === undefined ? [] : [el('p', {}, [group, change?.reason].filter(Boolean).join(': '))]),
      ...parts,
      el(
        'p',
        { class: 'buttons' },
        button('Close', () => dialog.close()),
      ),
    )
    dialog.addEventListener('close', () => dialog.remove())
    document.body.append(dialog)
    dialog.showModal()
  }

  /** The group of a change, unless it is a source, and its hunks. */
  async #reviewOf(path: Uint8Array): Promise<{ group?: string; change?: ReviewedChange }> {
    const review = await this.#client.workspace.review({ paths: [path], maxBytes: MOST_DIFF_BYTES })
    for (const group of Object.keys(review) as (keyof Review)[]) {
      const change = review[group].find(({ pathBytes }) => `${pathBytes}` === `${path}`)
      if (change !== undefined) return { ...(group !== 'source' && { group: GROUPS[group] }), change }
    }
    return {}
  }

  async #commitAll(): Promise<void> {
    if (!(await confirmed('Make all changes real?', 'Commit'))) return
    const { applied, skipped } = await this.#client.workspace.commit()
    const left = skipped.length === 0 ? '' : `, ${skipped.length} could not be made real`
    notify(`${applied} changes are real now${left}.`)
    await this.refresh()
  }

  async #discardAll(): Promise<void> {
    if (
      !(await confirmed('Take all changes back? Programs that use the files may fail.', 'Discard', 'danger'))
    )
      return
    const { discarded } = await this.#client.workspace.discard()
    notify(`${discarded} changes are gone.`)
    await this.refresh()
  }

  async #undoLast(): Promise<void> {
    if (!(await confirmed('Take back the last command? All programs of the sandbox end.', 'Undo', 'danger')))
      return
    try {
      const { command } = await this.#client.undo()
      notify(`Taken back: ${command}`)
    } catch (error) {
      if ((error as { code?: string }).code !== 'CHECKPOINT_NOT_FOUND') throw error
      // Only the next command can change that.
      this.#undo.disabled = true
      this.#version = this.#model.version
      notify('There is no command to take back.')
    }
    await this.refresh()
  }
}

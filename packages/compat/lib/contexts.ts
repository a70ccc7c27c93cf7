/** The contexts of code interpreters, for every API: each keeps the state of a language, and runs one piece of code at a time. */
import { HttpError } from './failure.js'
import { type Hosted, perRun } from './hosted.js'
import { BashKernel } from './kernels/bash.js'
import type { Kernel } from './kernels/kernel.js'
import { PythonKernel } from './kernels/python.js'

const MOST_CONTEXTS = 256

export type Language = 'python' | 'bash'

/** `kept` is what the same kernel has returned before a pause. */
const KERNELS: Record<Language, new (hosted: Hosted, cwd: string, kept?: never) => Kernel> = {
  python: PythonKernel,
  bash: BashKernel,
}

export interface Context {
  id: string
  language: Language
  /** As clients see it. */
  cwd: string
  createdAt: string
  kernel: Kernel
  /** The end of the code that was sent before. */
  last: Promise<unknown>
}

/** What is kept of a context during a pause. */
interface KeptContext extends Pick<Context, 'id' | 'language' | 'cwd' | 'createdAt'> {
  state: unknown
}

/** A pause keeps those whose state is in a shell, and a full one also those that have none so far. */
export const contextsOf = perRun<Contexts, KeptContext[]>('contexts', {
  create: (hosted, kept) => new Contexts(hosted, kept ?? []),
  keep: (contexts, snapshot) => contexts.keep(snapshot === 'full'),
  inMemory: (contexts) => contexts.inMemory(),
})

class Contexts {
  readonly #hosted: Hosted
  readonly #all = new Map<string, Context>()

  constructor(hosted: Hosted, kept: KeptContext[]) {
    this.#hosted = hosted
    for (const { state, ...context } of kept) this.#add(context, state)
    hosted.onHalt.add(() => this.#all.clear())
  }

  /** A text for each whose state would end with its process. */
  inMemory(): string[] {
    return this.list().flatMap(({ id, language, kernel }) =>
      kernel.isInMemory() ? [`the ${language} context ${id}`] : [],
    )
  }

  keep(isFull: boolean): KeptContext[] {
    return this.list()
      .map(({ id, language, cwd, createdAt, kernel }) => ({
        id,
        language,
        cwd,
        createdAt,
        state: kernel.keep(),
      }))
      .filter(({ state }) => isFull || state !== undefined)
  }

  list(): Context[] {
    return [...this.#all.values()]
  }

  get(id: string): Context | undefined {
    return this.#all.get(id)
  }

  /** Throws HttpError. */
  find(id: string): Context {
    const context = this.#all.get(id)
    if (context === undefined) throw new HttpError(404, `there is no context ${id}`)
    return context
  }

  /** Throws HttpError when there are too many. */
  open(id: string, language: Language, cwd = ''): Context {
    if (this.#all.size >= MOST_CONTEXTS)
      throw new HttpError(429, `a sandbox has at most ${MOST_CONTEXTS} contexts`)
    const { view } = this.#hosted
    const shown = view.shown(view.resolve(cwd))
    return this.#add({ id, language, cwd: shown, createdAt: new Date().toISOString() }, undefined)
  }

  /** `state`: what its kernel has kept. */
  #add(known: Omit<KeptContext, 'state'>, state: unknown): Context {
    const directory = this.#hosted.view.resolve(known.cwd)
    const kernel = new KERNELS[known.language](this.#hosted, directory, state as never)
    const context = { ...known, kernel, last: Promise.resolve() }
    this.#all.set(known.id, context)
    return context
  }

  /** Throws HttpError. */
  async remove(id: string): Promise<void> {
    const context = this.find(id)
    this.#all.delete(id)
    await context.kernel.end()
    // Code may just have been starting it.
    context.last = context.last.then(() => context.kernel.end()).catch(() => {})
  }

  /** Calls `run` after the code that was sent before. `isRemoved`: the context was removed meanwhile. */
  async inTurn(context: Context, run: (isRemoved: boolean) => Promise<void>): Promise<void> {
    const running = context.last.then(() => run(this.#all.get(context.id) !== context))
    context.last = running.catch(() => {})
    await running
  }
}

/** The contexts of code interpreters, for every API: each keeps the state of a language, and runs one piece of code at a time. */
import { HttpError } from './failure.js'
import { type Hosted, perRun } from './hosted.js'
import { BashKernel } from './kernels/bash.js'
import type { Kernel } from './kernels/kernel.js'
import { PythonKernel } from './kernels/python.js'

const MOST_CONTEXTS = 256

const KERNELS = { python: PythonKernel, bash: BashKernel }
export type Language = keyof typeof KERNELS

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

/** A pause ends them. */
export const contextsOf = perRun((hosted) => new Contexts(hosted))

class Contexts {
  readonly #hosted: Hosted
  readonly #all = new Map<string, Context>()

  constructor(hosted: Hosted) {
    this.#hosted = hosted
    hosted.onHalt.add(() => this.#all.clear())
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
    const directory = view.resolve(cwd)
    const context: Context = {
      ...{ id, language, cwd: view.shown(directory), createdAt: new Date().toISOString() },
      kernel: new KERNELS[language](this.#hosted, directory),
      last: Promise.resolve(),
    }
    this.#all.set(id, context)
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

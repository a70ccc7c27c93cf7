/**
 * The run of a template: a stream that can also be awaited like the promise of `exec`.
 */
import { ExecStream } from './exec-stream.js'
import type { Result } from './run.js'

export class ShellRun extends ExecStream implements PromiseLike<Result> {
  // biome-ignore lint/suspicious/noThenProperty: it is to be awaited.
  then<A = Result, B = never>(
    fulfilled?: ((result: Result) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.result.then(fulfilled, rejected)
  }
}

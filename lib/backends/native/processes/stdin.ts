/**
 * The standard input of a process that was started with `input: 'pipe'`, or is fed from an iterable.
 */
import type { Engine } from '../engine.js'
import type { ProcessHandle } from './handle.js'

/** Resolves when the pipe took it, so a process that does not read holds the writer up. */
export async function write(engine: Engine, handle: ProcessHandle, data: Uint8Array): Promise<void> {
  await engine.call((native, id) => native.writeProcess(id, handle.id, data))
}

/** Nothing happens when it is closed already, or the process has ended. */
export function closeInput(engine: Engine, handle: ProcessHandle): void {
  engine.ask((native) => native.closeProcessInput(handle.id))
}

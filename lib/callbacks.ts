/**
 * The callbacks of exec: output as text, and what happens to what they throw.
 */
import type { ExecPlan } from './options/exec.js'
import { STDERR } from './options/stream.js'
import type { RunObserver } from './run.js'
import { PieceDecoder } from './utf8.js'

/** What callbacks are told about. */
export interface CallbackPlan extends Pick<ExecPlan, 'callbacks' | 'command'> {
  request: { sessionId: string }
}

/** Feeds onStart and onOutput; undefined when the plan has neither. Each stream has its own decoder. */
export function callbackObserver({ callbacks, command, request }: CallbackPlan): RunObserver | undefined {
  const { onStart, onOutput } = callbacks
  if (onStart === undefined && onOutput === undefined) return undefined
  const stdout = new PieceDecoder()
  const stderr = new PieceDecoder()
  const emit = (stream: 'stdout' | 'stderr', text: string) => {
    if (text !== '') onOutput?.(stream, text)
  }
  return {
    start(pid) {
      onStart?.({ command, pid, sessionId: request.sessionId })
    },
    output(stream, data) {
      if (stream === STDERR) emit('stderr', stderr.write(data))
      else emit('stdout', stdout.write(data))
      return false
    },
    end() {
      emit('stdout', stdout.end())
      emit('stderr', stderr.end())
    },
  }
}

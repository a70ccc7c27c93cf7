/**
 * The callbacks of exec: output as text, and what happens to what they throw.
 */
import { StringDecoder } from 'node:string_decoder'
import type { ExecPlan } from './options/exec'
import { STDERR } from './options/stream'
import type { RunObserver } from './run'

/** Feeds onStart and onOutput; undefined when the plan has neither. Each stream has its own decoder. */
export function callbackObserver({ callbacks, command, request }: ExecPlan): RunObserver | undefined {
  const { onStart, onOutput } = callbacks
  if (onStart === undefined && onOutput === undefined) return undefined
  const stdout = new StringDecoder('utf8')
  const stderr = new StringDecoder('utf8')
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

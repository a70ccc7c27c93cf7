/** What a session shows: its commands as a person would have typed them, with their output. */
import type { SandboxEvent } from 'nacre'
import { ShellText } from './shell-text.js'

type Of<Type extends SandboxEvent['type']> = Extract<SandboxEvent, { type: Type }>

const DIM = '\x1b[2m'
const PLAIN = '\x1b[0m'
const NEWLINE = '\r\n'

/** Bytes of both streams. */
interface Printed {
  stdout: number
  stderr: number
}

/** What shows it: a recording, or a page. */
export interface Shown {
  output(time: Date, text: string): void
  marker(time: Date, text: string): void
  /** Bytes of output are missing here. */
  lose(bytes: number): void
}

export class SessionTrack<T extends Shown> {
  readonly track: T
  #text = new ShellText()
  #printed: Printed = { stdout: 0, stderr: 0 }

  constructor(track: T) {
    this.track = track
  }

  start({ time, command }: Of<'commandStarted'>): void {
    this.#text = new ShellText()
    this.#printed = { stdout: 0, stderr: 0 }
    const [first = ''] = command.split('\n')
    this.track.marker(time, first)
    this.track.output(time, `$ ${command.replaceAll('\n', `${NEWLINE}> `)}${NEWLINE}`)
  }

  output({ time, stdout, stderr, stdoutBytes, stderrBytes }: Of<'commandOutput'>): void {
    this.#print(time, 'stdout', stdout, stdoutBytes)
    this.#print(time, 'stderr', stderr, stderrBytes)
  }

  detach({ time, processId }: Of<'commandDetached'>): void {
    this.#note(time, `goes on as the process ${processId}`)
  }

  end({ time, exitCode, signal, duration, stdoutBytes, stderrBytes }: Of<'commandEnded'>): void {
    this.#print(time, 'stdout', new Uint8Array(), stdoutBytes)
    this.#print(time, 'stderr', new Uint8Array(), stderrBytes)
    const end = signal ?? (exitCode === null ? 'no exit code' : `exit ${exitCode}`)
    this.#note(time, `${end}, ${(duration / 1000).toFixed(1)} s`)
  }

  #print(time: Date, stream: 'stdout' | 'stderr', bytes: Uint8Array, total: number): void {
    const missing = total - this.#printed[stream] - bytes.length
    this.#printed[stream] = total
    if (missing > 0) {
      this.track.output(time, this.#text.skip(stream))
      this.#note(time, `${missing} bytes are missing`)
      this.track.lose(missing)
    }
    this.track.output(time, this.#text.add(stream, bytes))
  }

  /** On a line of its own. */
  #note(time: Date, text: string): void {
    const start = this.#text.isAtStart ? '' : NEWLINE
    this.track.output(time, `${start}${PLAIN}${DIM}[${text}]${PLAIN}${NEWLINE}`)
    this.#text.isAtStart = true
  }
}

/** Plays a recording in a dialog. */
import { type CastEvent, readEvent, readHeader, sizeOf } from '../dist/recording/cast.js'
import { notify } from './ask.ts'
import { button, el, setText } from './dom.ts'
import type { Size } from './model.ts'
import { Screen } from './screen.ts'

/** Longer pauses are cut. */
const MOST_PAUSE_MS = 2000
/** Events that are closer are shown together. */
const FRAME_MS = 16
/** How often the time goes on during a pause. */
const STEP_MS = 100
const MOST_CELLS = 500
const MOST_MARKS = 1000
/** How many events are written before the first of them is shown. */
const MOST_UNSEEN = 1000

export function play(name: string, text: string): void {
  const [first = '', ...lines] = text.split('\n')
  const header = readHeader(first)
  if (header === undefined) {
    notify(`${name} is no recording in the format asciicast v3.`)
    return
  }
  new Player(
    name,
    header.size,
    lines.flatMap((line) => readEvent(line) ?? []),
  ).start()
}

class Player {
  readonly #dialog: HTMLDialogElement
  readonly #screen: Screen
  readonly #size: Size
  readonly #events: CastEvent[]
  /** Milliseconds from the beginning to each event. */
  readonly #times: number[] = []
  readonly #slider: HTMLInputElement
  readonly #time = el('span', { class: 'time' })
  /** A person chooses a time. */
  #isChoosing = false
  readonly #state = el('span', { class: 'state', role: 'status' })
  readonly #toggle = button('Pause', () => (this.#isPlaying ? this.#pause() : this.#resume()), {
    class: 'main',
  })
  #speed = 1
  /** The next event. */
  #at = 0
  #isPlaying = false
  /** Counts calls of `#play`: an earlier one ends. */
  #turn = 0

  constructor(name: string, size: Size, events: CastEvent[]) {
    this.#size = size
    this.#events = events
    this.#screen = new Screen({
      ...{
        size: { cols: bounded(size.cols), rows: bounded(size.rows) },
        label: `Screen of ${name}`,
        shows: 'whole',
      },
    })
    let time = 0
    for (const { interval } of events) {
      time += interval * 1000
      this.#times.push(time)
    }
    this.#slider = el('input', {
      type: 'range',
      min: '0',
      max: String(Math.ceil(time)),
      'aria-label': 'Position',
    })
    this.#slider.addEventListener('input', () => {
      this.#isChoosing = true
      this.#showTime(Number(this.#slider.value))
    })
    this.#slider.addEventListener('change', () => {
      this.#isChoosing = false
      const chosen = Number(this.#slider.value)
      const at = this.#times.findIndex((time) => time > chosen)
      void this.#play(at === -1 ? events.length : at)
    })
    const speeds = [1, 2, 4, 8].map((speed) => el('option', { value: String(speed) }, `${speed} x`))
    const marks = events.flatMap(({ code, data }, at) => (code === 'm' ? [{ at, data }] : []))
    const places = marks
      .slice(0, MOST_MARKS)
      .map(({ at, data }) => el('option', { value: String(at) }, data.slice(0, 80)))
    this.#dialog = el(
      'dialog',
      { class: 'wide player', 'aria-label': name },
      el('h2', {}, name),
      this.#screen.element,
      el('p', { class: 'progress' }, this.#toggle, this.#slider, this.#time),
      el(
        'p',
        { class: 'buttons' },
        this.#state,
        select('Speed', speeds, (speed) => {
          this.#speed = speed
        }),
        select(
          'Jump to',
          [el('option', { value: '0' }, 'the beginning'), ...places],
          (at) => void this.#play(at),
        ),
        button('Close', () => this.#dialog.close()),
      ),
    )
    this.#dialog.addEventListener('close', () => {
      this.#pause()
      this.#screen.dispose()
      this.#dialog.remove()
    })
  }

  start(): void {
    document.body.append(this.#dialog)
    this.#dialog.showModal()
    this.#screen.show()
    void this.#play(0)
  }

  #pause(): void {
    this.#turn++
    this.#isPlaying = false
    setText(this.#toggle, 'Play')
  }

  #resume(): void {
    void this.#play(this.#at === this.#events.length ? 0 : this.#at)
  }

  /** Shows the events before `from` at once, and plays the others. */
  async #play(from: number): Promise<void> {
    const turn = ++this.#turn
    this.#isPlaying = true
    setText(this.#toggle, 'Pause')
    if (from < this.#at) {
      // What was written before is shown first.
      await this.#screen.write('')
      if (turn !== this.#turn) return
      this.#rewind()
    }
    let pause = 0
    while (turn === this.#turn) {
      const event = this.#events[this.#at]
      if (event === undefined) {
        this.#pause()
        return
      }
      const isPast = this.#at++ < from
      const shown = this.#show(event)
      // To wait for each would take minutes.
      if (isPast && event.code !== 'r' && this.#at % MOST_UNSEEN !== 0) continue
      await shown
      if (turn !== this.#turn) return
      this.#showProgress()
      if (isPast) continue
      pause += Math.min((this.#events[this.#at]?.interval ?? 0) * 1000, MOST_PAUSE_MS) / this.#speed
      if (pause < FRAME_MS) continue
      await this.#wait(pause, turn)
      pause = 0
    }
  }

  /** Waits for the next event, while the time goes on. */
  async #wait(pause: number, turn: number): Promise<void> {
    const last = this.#times[this.#at - 1] ?? 0
    const next = this.#times[this.#at] ?? last
    for (let waited = 0; waited < pause && turn === this.#turn; waited += STEP_MS) {
      this.#showProgress(last + ((next - last) * waited) / pause)
      await new Promise((resolve) => setTimeout(resolve, Math.min(STEP_MS, pause - waited)))
    }
  }

  #showProgress(time = this.#times[this.#at - 1] ?? 0): void {
    if (this.#isChoosing) return
    this.#slider.value = String(Math.round(time))
    this.#showTime(time)
  }

  #showTime(time: number): void {
    const text = `${minutes(time)} / ${minutes(this.#times.at(-1) ?? 0)}`
    setText(this.#time, text)
    this.#slider.setAttribute('aria-valuetext', text)
  }

  #rewind(): void {
    this.#at = 0
    this.#screen.reset()
    this.#resize(this.#size)
    setText(this.#state, '')
  }

  async #show({ code, data }: CastEvent): Promise<void> {
    if (code === 'o') await this.#screen.write(data)
    if (code === 'r') {
      // A terminal resizes at once, before what waits to be written.
      await this.#screen.write('')
      this.#resize(sizeOf(data) ?? this.#size)
    }
    if (code === 'm') setText(this.#state, data)
    if (code === 'x') setText(this.#state, `exit ${data}`)
  }

  #resize({ cols, rows }: Size): void {
    this.#screen.resize({ cols: bounded(cols), rows: bounded(rows) })
  }
}

/** Like 1:05. */
function minutes(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000)
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`
}

function bounded(cells: number): number {
  return Math.min(Math.max(cells, 1), MOST_CELLS)
}

function select(label: string, options: HTMLElement[], choose: (value: number) => void): HTMLElement {
  const list = el('select', { 'aria-label': label }, ...options)
  list.addEventListener('change', () => choose(Number(list.value)))
  return list
}

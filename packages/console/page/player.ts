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
const MOST_CELLS = 500

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
  readonly #state = el('span', { class: 'state', role: 'status' })
  readonly #toggle = button('Pause', () => (this.#timer === undefined ? this.#resume() : this.#pause()))
  #speed = 1
  #at = 0
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(name: string, size: Size, events: CastEvent[]) {
    this.#size = size
    this.#events = events
    this.#screen = new Screen({ cols: bounded(size.cols), rows: bounded(size.rows) }, `Screen of ${name}`)
    const speeds = [1, 2, 4, 8].map((speed) => el('option', { value: String(speed) }, `${speed} x`))
    const marks = events.flatMap(({ code, data }, at) =>
      code === 'm' ? [el('option', { value: String(at) }, data.slice(0, 80))] : [],
    )
    this.#dialog = el(
      'dialog',
      { class: 'player', 'aria-label': name },
      el('h2', {}, name),
      this.#screen.element,
      el(
        'p',
        { class: 'buttons' },
        this.#state,
        select('Speed', speeds, (speed) => {
          this.#speed = speed
        }),
        select('Jump to', [el('option', { value: '0' }, 'the beginning'), ...marks], (at) => this.#jump(at)),
        this.#toggle,
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
    this.#resume()
  }

  #resume(): void {
    if (this.#at === this.#events.length) this.#rewind()
    setText(this.#toggle, 'Pause')
    this.#timer = setTimeout(() => this.#step(), 0)
  }

  #pause(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    setText(this.#toggle, 'Play')
  }

  #rewind(): void {
    this.#at = 0
    this.#screen.reset()
    this.#resize(this.#size)
    setText(this.#state, '')
  }

  /** Shows the next event, and those right after it. */
  #step(): void {
    let pause = 0
    do {
      const event = this.#events[this.#at]
      if (event === undefined) {
        this.#pause()
        return
      }
      this.#show(event)
      this.#at++
      pause += Math.min((this.#events[this.#at]?.interval ?? 0) * 1000, MOST_PAUSE_MS) / this.#speed
    } while (pause < FRAME_MS)
    this.#timer = setTimeout(() => this.#step(), pause)
  }

  #jump(at: number): void {
    this.#pause()
    this.#rewind()
    for (; this.#at < at; this.#at++) this.#show(this.#events[this.#at] as CastEvent)
    this.#resume()
  }

  #show({ code, data }: CastEvent): void {
    if (code === 'o') void this.#screen.write(data)
    if (code === 'r') this.#resize(sizeOf(data) ?? this.#size)
    if (code === 'm') setText(this.#state, data)
    if (code === 'x') setText(this.#state, `exit ${data}`)
  }

  #resize({ cols, rows }: Size): void {
    this.#screen.resize({ cols: bounded(cols), rows: bounded(rows) })
  }
}

function bounded(cells: number): number {
  return Math.min(Math.max(cells, 1), MOST_CELLS)
}

function select(label: string, options: HTMLElement[], choose: (value: number) => void): HTMLElement {
  const list = el('select', { 'aria-label': label }, ...options)
  list.addEventListener('change', () => choose(Number(list.value)))
  return list
}

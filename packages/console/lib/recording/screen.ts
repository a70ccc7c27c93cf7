/** The screen that a recording ends with, as output that draws it again. */
import type { ITerminalAddon } from '@xterm/headless'
import { readEvent, readHeader, sizeOf } from './cast.js'
import { linesOf } from './lines.js'

/** Larger terminals are cut: each cell takes memory. */
const MOST_CELLS = 500
const LEAST_CELLS = 2

/** A variable, since its types would bring those of browsers along. */
const ADDON = '@xterm/addon-serialize' as string

interface Addon {
  SerializeAddon: new () => ITerminalAddon & { serialize(options: { scrollback: number }): string }
}

/** Plays a file in an emulator, which gives way to other work every few milliseconds. */
export async function screenAfter(file: AsyncIterable<Uint8Array>): Promise<string> {
  // 30 ms, for recordings that become long.
  const [{ default: xterm }, { default: serialize }] = await Promise.all([
    import('@xterm/headless'),
    import(ADDON) as Promise<{ default: Addon }>,
  ])
  const terminal = new xterm.Terminal({ cols: 80, rows: 24, scrollback: 0, allowProposedApi: true })
  const serializer = new serialize.SerializeAddon()
  terminal.loadAddon(serializer)
  try {
    let isFirst = true
    for await (const line of linesOf(file)) {
      const size = isFirst ? readHeader(line)?.size : undefined
      const event = isFirst ? undefined : readEvent(line)
      isFirst = false
      if (size !== undefined) resize(size)
      if (event?.code === 'r') resize(sizeOf(event.data) ?? terminal)
      if (event?.code === 'o') await new Promise<void>((resolve) => terminal.write(event.data, resolve))
    }
    return serializer.serialize({ scrollback: 0 })
  } finally {
    terminal.dispose()
  }

  function resize({ cols, rows }: { cols: number; rows: number }): void {
    terminal.resize(bounded(cols), bounded(rows))
  }
}

function bounded(cells: number): number {
  return Math.min(Math.max(cells, LEAST_CELLS), MOST_CELLS)
}

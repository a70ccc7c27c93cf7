import { describe, expect, it } from 'vitest'
import { CallTable } from '../lib/backends/native/call-table.js'
import type { NativeEvent } from '../lib/boundary/index.js'
import { withSandbox } from './helpers/invariants.js'
import { rejectionOf } from './helpers/thrown.js'

describe('CallTable', () => {
  it('gives every pending call its own id above 0', () => {
    const table = new CallTable(undefined)
    const ids = Array.from({ length: 1000 }, () => table.add(() => {}))
    expect(new Set(ids).size).toBe(1000)
    expect(Math.min(...ids)).toBe(1)
  })

  it('passes events to their call, and forgets it before its last one', () => {
    const table = new CallTable(undefined)
    const seen: string[] = []
    const listen = (call: number, event: NativeEvent) => seen.push(`${call} ${event.kind} ${table.size}`)
    const first = table.add((event) => listen(1, event))
    const second = table.add((event) => listen(2, event))
    table.dispatch({ id: first, kind: 'output', stream: 1, data: Buffer.from('x') })
    table.dispatch({ id: second, kind: 'done', value: null })
    table.dispatch({ id: second, kind: 'done', value: null })
    table.dispatch({ id: first, kind: 'error', code: 'ENGINE_ERROR', message: 'm' })
    expect(seen).toEqual(['1 output 2', '2 done 1', '1 error 0'])
  })

  it('passes log events to the logger, whatever it throws', () => {
    const seen: string[] = []
    const keep = (level: string) => (message: string) => {
      seen.push(`${level} ${message}`)
      throw new Error('the logger is broken')
    }
    const table = new CallTable({
      debug: keep('debug'),
      info: keep('info'),
      warn: keep('warn'),
      error: keep('error'),
    })
    for (const level of ['debug', 'info', 'warn', 'error'] as const) {
      table.dispatch({ kind: 'log', level, message: 'm' })
    }
    expect(seen).toEqual(['debug m', 'info m', 'warn m', 'error m'])
  })
})

it('a call whose result cannot become a JavaScript value is rejected', () =>
  withSandbox(async ({ sandbox }) => {
    await sandbox.files.write('a', '')
    // The addon sets the elements of an array, and this refuses those of the list of files.
    Object.defineProperty(Object.prototype, 0, {
      configurable: true,
      set(value) {
        if (Object.hasOwn(Object(value), 'modified')) throw new Error('no room')
        Object.defineProperty(this, 0, { value, configurable: true, enumerable: true, writable: true })
      },
    })
    const listing = await rejectionOf(sandbox.files.list('.')).finally(() =>
      Reflect.deleteProperty(Object.prototype, 0),
    )
    expect(listing).toMatchObject({ code: 'ENGINE_ERROR' })
    expect(String(listing)).toContain('the result cannot be passed to JavaScript')
    expect(await sandbox.files.list('.')).toHaveLength(1)
  }))

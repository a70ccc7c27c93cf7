import { describe, expect } from 'vitest'
import { itWithTools } from './places.js'

/** Draws on the whole screen, as editors do, and ends with a key. */
const DRAWING = String.raw`printf '\e[?1049h\e[2J\e[3;5Hthird row\e[1;1Hfirst row'; stty raw -echo; bash -c 'read -rn1 key; printf "\e[2;1Hkey %s" "$key"; read -rn1 key'; printf '\e[?1049l'; echo bye`

describe('the screen of a terminal', () => {
  itWithTools('is the reply while a program draws on all of it', async ({ call }) => {
    const drawn = await call('bash', { command: DRAWING, pty: true })
    const [header, ...rows] = drawn.text.split('\n')
    expect(header).toContain('r1 waits for input (bash, keys)')
    expect(rows).toEqual(['first row', '', '    third row', '[use write, output or kill with id "r1"]'])
    const pressed = await call('write', { id: 'r1', text: 'a', enter: false })
    expect(pressed.text).toContain('\nfirst row\nkey a\n    third row\n')
    expect((await call('output', { id: 'r1', screen: true })).text).toBe(
      '[r1 screen | cursor in row 2, column 6]\nfirst row\nkey a\n    third row',
    )
    const end = await call('write', { id: 'r1', text: 'b', enter: false })
    expect(end.data.exitCode).toBe(0)
    expect(end.text).toMatch(/bye$/)
  })

  itWithTools('has the size that the program sees, and follows its output', async ({ call }) => {
    await call('bash', { command: 'stty size; seq 100; cat', pty: true })
    const screen = await call('output', { id: 'r1', screen: true })
    expect(screen.text.split('\n').slice(1, 3)).toEqual(['62', '63'])
    expect((await call('output', { id: 'r1', from_line: 1, max_tokens: 100 })).text).toContain(
      '\n1: 40 120\n',
    )
    await call('bash', { command: 'true' })
    expect((await call('output', { id: 'r2', screen: true })).text).toContain('r2 has no terminal')
  })
})

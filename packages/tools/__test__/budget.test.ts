/** Replies keep their budget by the count of a real tokenizer. */
import { createTools } from '@nacre/tools'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withTools } from './places.js'

/** The factor by which an estimate may be wrong. */
const MARGIN = 1.15

const random = (from: string, length: number, command = 'print(s)') =>
  `python3 -c 'import random; random.seed(1); a = ${JSON.stringify(from)}; s = "".join(random.choice(a) for _ in range(${length})); ${command}'`

const OUTPUTS: Record<string, string> = {
  numbers: 'seq 20000',
  listing:
    'for i in $(seq 2000); do echo "-rw-r--r-- 1 root root $((i * 37)) Nov 26 14:29 file-$i.test.ts"; done',
  paths: 'find /usr/lib /usr/share -type f | head -3000',
  prose:
    'for i in $(seq 800); do echo "The supervisor of the session reaps what the command has left behind, and replies."; done',
  code: 'for f in /usr/lib/python3*/*.py; do cat "$f"; done | head -c 400000',
  json: `python3 -c 'import json; print(json.dumps([{"id": i, "name": f"item-{i}", "tags": ["a", "b"], "on": True} for i in range(3000)]))' | fold -w 200`,
  base64: 'head -c 100000 /bin/bash | base64',
  hex: 'head -c 60000 /bin/bash | od -An -tx1 -v',
  chinese: random(
    '的一是在不了有和人这中大为上个国我以要他时来用们',
    30000,
    'print("\\n".join(s[i:i+60] for i in range(0, len(s), 60)))',
  ),
  russian: random(
    'оеаинтсрвлкмдпуяыьгзбчйхжшюцщэф  ',
    30000,
    'print("\\n".join(s[i:i+60] for i in range(0, len(s), 60)))',
  ),
  emoji: random('😀🎉🚀🔥✅❌⚠️', 9000, 'print("\\n".join(s[i:i+40] for i in range(0, len(s), 40)))'),
  symbols: random(
    '{}[]()<>;:,./?!@#$%^&*-_=+|~',
    30000,
    'print("\\n".join(s[i:i+80] for i in range(0, len(s), 80)))',
  ),
  table: 'for i in $(seq 2000); do printf "| %-20s | %10d | %-12s |\\n" "name$i" $((i * 991)) ok; done',
  diff: 'diff -u /dev/null <(seq 3000 | sed "s/.*/const value& = compute(&)/")',
  log: 'for i in $(seq 2000); do echo "2026-11-26T14:29:$((i % 60)).123Z INFO [worker-$i] request id=$((i * 7919)) took $((i % 300)) ms"; done',
  stack:
    'for i in $(seq 1000); do echo "    at Object.<anonymous> (/app/node_modules/pkg/dist/index.js:$i:17)"; done',
  blanks: 'for i in $(seq 3000); do printf "%*s%s\\n" $((i % 40)) "" x; done',
  uuids: random(
    '0123456789abcdef',
    40000,
    'print("\\n".join(f"{s[i:i+8]}-{s[i+8:i+12]}-{s[i+12:i+16]}-{s[i+16:i+20]}-{s[i+20:i+32]}" for i in range(0, len(s) - 32, 32)))',
  ),
  progress: 'for i in $(seq 4000); do printf "\\r\\e[32m%d of 4000\\e[0m" $i; done',
  oneLine: 'head -c 400000 /dev/zero | tr "\\0" x',
}

describe('the budget of a reply', () => {
  for (const [name, command] of Object.entries(OUTPUTS)) {
    it(`holds for output like ${name}`, () =>
      withTools(async ({ call }) => {
        for (const max_tokens of [100, 500, 4000, 9000]) {
          const { text, data } = await call('bash', { command, max_tokens })
          expect(data.exitCode).not.toBe(127)
          expect(data.bytes).toBeGreaterThan(10_000)
          expect(countTokens(text), `bash with ${max_tokens}`).toBeLessThanOrEqual(max_tokens * MARGIN)
          const lines = await call('output', { id: data.id, max_tokens })
          expect(countTokens(lines.text), `output with ${max_tokens}`).toBeLessThanOrEqual(
            max_tokens * MARGIN,
          )
        }
      }))
  }

  it('is used', () =>
    withTools(async ({ call }) => {
      for (const name of ['numbers', 'code', 'log', 'base64']) {
        const { text } = await call('bash', { command: OUTPUTS[name] ?? '' })
        expect(countTokens(text), name).toBeGreaterThan(2000)
      }
    }))

  it('holds exactly with a tokenizer', () =>
    withTools(
      async ({ call }) => {
        const { text } = await call('bash', { command: OUTPUTS.base64 ?? '' })
        expect(countTokens(text)).toBeLessThanOrEqual(4000)
      },
      { countTokens: (text) => countTokens(text) },
    ))
})

describe('the definitions', () => {
  const definitions = (requireSession: boolean) => {
    const { list } = createTools(new Sandbox(), { requireSession })
    const tools = list.map(({ name, title, description, inputSchema, annotations }) => ({
      name,
      title,
      description,
      inputSchema,
      annotations,
    }))
    return countTokens(JSON.stringify({ tools }))
  }

  it('take at most 1,600 tokens, also with sessions', () => {
    expect(definitions(false)).toBeLessThanOrEqual(1600)
    expect(definitions(true)).toBeLessThanOrEqual(1600)
  })

  it('make a short reply of a short command', () =>
    withTools(async ({ call }) => {
      // The directory of the test has a random name.
      await call('bash', { command: 'cd /usr/share' })
      expect(countTokens((await call('bash', { command: 'true', cwd: '/usr' })).text)).toBeLessThanOrEqual(40)
      await call('bash', { command: 'cd /' })
      expect(countTokens((await call('bash', { command: 'true' })).text)).toBeLessThanOrEqual(15)
    }))
})

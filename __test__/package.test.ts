/** The package as programs load it: by import and by require, on Node and on Bun, without the addon being loaded. */
import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { describe, expect, it } from 'vitest'

const root = path.dirname(__dirname)
const bun = path.join(root, 'node_modules/.bin/bun')
const report =
  'console.log(new Sandbox() instanceof Sandbox, new SandboxError("ENGINE_ERROR", "m").code, OptionError.name)'

const programs: Array<[string, string, string[]]> = [
  [
    'Node, import',
    'node',
    ['--input-type=module', '-e', `import { OptionError, Sandbox, SandboxError } from 'nacre'; ${report}`],
  ],
  [
    'Node, require',
    'node',
    ['-e', `const { OptionError, Sandbox, SandboxError } = require('nacre'); ${report}`],
  ],
  ['Bun, import', bun, ['-e', `import { OptionError, Sandbox, SandboxError } from 'nacre'; ${report}`]],
  ['Bun, require', bun, ['-e', `const { OptionError, Sandbox, SandboxError } = require('nacre'); ${report}`]],
]

describe('the package', () => {
  for (const [name, program, args] of programs) {
    it(`works with ${name}`, () => {
      const output = execFileSync(program, args, { cwd: root, encoding: 'utf8' })
      expect(output).toBe('true ENGINE_ERROR OptionError\n')
    })
  }

  for (const [name, program, args] of [
    [
      'Node, import',
      'node',
      [
        '--input-type=module',
        '-e',
        `import { SandboxClient } from 'nacre/client'; import { serve } from 'nacre/server'; console.log(typeof SandboxClient, typeof serve)`,
      ],
    ],
    [
      'Bun, require',
      bun,
      [
        '-e',
        `console.log(typeof require('nacre/client').SandboxClient, typeof require('nacre/server').serve)`,
      ],
    ],
  ] as Array<[string, string, string[]]>) {
    it(`has its server and its client, with ${name}`, () => {
      expect(execFileSync(program, args, { cwd: root, encoding: 'utf8' })).toBe('function function\n')
    })
  }
})

/** Repairs a project: tries several strategies at the same time, and keeps the one that passes most tests. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { bestOf } from './best-of-n.js'
import { strategies } from './strategies.js'

const project = mkdtempSync(path.join(os.tmpdir(), 'best-of-n-'))
cpSync(path.join(import.meta.dirname, 'project'), project, { recursive: true })

const sandbox = new Sandbox({ cwd: project, workspace: 'copy-on-write' })
await sandbox.exec('score() { sh test.sh 2> /dev/null || echo 0; }')
console.log(`before: ${(await sandbox.exec('score')).stdout.trim()} of 5 tests pass`)

const { scores, winner, applied } = await bestOf(sandbox, strategies)
for (const [number, { name }] of strategies.entries()) console.log(`${name}: ${scores[number]}`)
console.log(`the best is: ${winner.name}; changed files: ${applied}`)
await sandbox.destroy()

console.log(readFileSync(path.join(project, 'slug.sh'), 'utf8').trim())
rmSync(project, { recursive: true })

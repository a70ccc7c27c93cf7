/** Repairs a project: agents work on it at the same time, and the work of the two best becomes one branch. */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { agents } from './agents.js'
import { bestOf } from './best-of-n.js'

const project = mkdtempSync(path.join(os.tmpdir(), 'best-of-n-'))
cpSync(path.join(import.meta.dirname, 'project'), project, { recursive: true })
const git = (...words) => execFileSync('git', words, { cwd: project, encoding: 'utf8' })
git('init', '--quiet')
git('config', 'user.name', 'Best of n')
git('config', 'user.email', 'best-of-n@localhost')
git('add', '--all')
git('commit', '--quiet', '--message', 'Begin')

const sandbox = new Sandbox({ cwd: project, workspace: 'copy-on-write' })
await sandbox.exec('score() { sh test.sh 2> /dev/null || echo 0; }')
console.log(`before: ${(await sandbox.exec('score')).stdout.trim()} of 8 tests pass`)

const { scores, names, together, applied } = await bestOf(sandbox, agents, 'agent/best')
for (const [number, { name }] of agents.entries()) console.log(`${name}: ${scores[number]}`)
console.log(`${names.join(' and ')} together: ${together}; changed files: ${applied}`)
await sandbox.destroy()

console.log(git('show', 'agent/best:text.sh').trim())
console.log(`changed in the checkout: ${git('status', '--short') || 'nothing'}`)
rmSync(project, { recursive: true })

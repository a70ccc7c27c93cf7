/** `nacre suspend` and `nacre resume`: a kept sandbox as a file, and back. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { withCli } from '../helpers/cli.js'
import { temporary } from '../helpers/temporary.js'

it('a kept sandbox moves to another directory and another name', () =>
  withCli(async ({ nacre }) => {
    const base = temporary('nacre-suspend-')
    const [from, to, file] = [path.join(base, 'from'), path.join(base, 'to'), path.join(base, 'agent.nacre')]
    for (const place of [from, to]) {
      mkdirSync(path.join(place, 'project'), { recursive: true })
      writeFileSync(path.join(place, 'project/a'), 'old')
    }
    const place = (one: string) => ({ cwd: path.join(one, 'project'), stateDir: path.join(one, 'state') })
    const flags = (one: string) => ['--state-dir', path.join(one, 'state')]
    {
      await using sandbox = new Sandbox({ ...place(from), keep: 'agent-7', workspace: 'copy-on-write' })
      await sandbox.exec('mkdir d; cd d; x=1; echo new > ../a; exec 7</dev/null')
      const used = await nacre('suspend', 'agent-7', file, ...flags(from))
      expect(used).toMatchObject({
        code: 1,
        stderr: expect.stringContaining(`in use by process ${process.pid}`),
      })
    }
    expect(await nacre('suspend', 'agent-8', file, ...flags(from))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("nothing is kept as 'agent-8'"),
    })
    const suspended = await nacre('suspend', 'agent-7', file, ...flags(from))
    const bytes = readFileSync(file).length
    expect(suspended).toEqual({
      code: 0,
      stdout: '',
      stderr: `nacre: wrote 1 sessions and 2 files: ${bytes} bytes\n`,
    })
    writeFileSync(path.join(to, 'project/a'), 'other')
    const words = ['resume', file, '--keep', 'moved', '--cwd', path.join(to, 'project'), ...flags(to)]
    const refused = await nacre(...words)
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("another 'a'") })
    expect(await nacre(...words, '--on-difference', 'report')).toEqual({
      code: 0,
      stdout: '',
      stderr: 'nacre: kept as moved\nnacre: differs: a\n',
    })
    await using next = new Sandbox({ ...place(to), keep: 'moved', workspace: 'copy-on-write' })
    expect((await next.exec('echo $x $PWD; cat ../a')).stdout).toBe(`1 ${to}/project/d\nnew\n`)
  }))

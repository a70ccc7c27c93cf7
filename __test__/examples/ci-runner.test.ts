/** examples/ci-runner, with a pipeline that passes and one that fails. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Example, openExample } from '../helpers/example.js'

let example: Example

beforeAll(async () => {
  example = await openExample('ci-runner')
}, 60_000)

afterAll(() => example.remove())

/** Output with the times and the port left out. */
const plain = (text: string) => text.replace(/\(\d+(\.\d)? s\)/g, '(n s)').replace(/port \d+/, 'port n')

describe('the ci-runner example', () => {
  it('passes a pipeline with a service and an ignored failure', async () => {
    const { exitCode, stdout } = await example.run('main.js', 'pipeline.js')
    expect(plain(stdout)).toBe(`service api is ready on port n
::group::set up
::endgroup::
::group::lint
::warning file=app.js,line=7::unused variable
::endgroup::
::group::build
building 1.2.3 with release
::endgroup::
::group::test
pong
app
::endgroup::
::group::clean up
::endgroup::

Summary
  set up: passed (n s)
  lint: exit code 1, ignored (n s)
  build: passed (n s)
  test: passed (n s)
  clean up: passed (n s)
  warning app.js:7: unused variable
`)
    expect(exitCode).toBe(0)
  })

  it('kills a step that hangs, skips the next one and still reports', async () => {
    const { exitCode, stdout } = await example.run('main.js', 'failing.js')
    expect(plain(stdout)).toBe(`::group::hang
started
::endgroup::
::error::hang: timeout after 500 ms
::group::report
::error file=deploy.yaml,line=3::not deployed
::endgroup::

Summary
  hang: timeout after 500 ms (n s)
  deploy: skipped (n s)
  report: passed (n s)
  error deploy.yaml:3: not deployed
`)
    expect(exitCode).toBe(1)
  })

  it('exits with 2 without a pipeline', async () => {
    const { exitCode, stderr } = await example.run('main.js')
    expect(exitCode).toBe(2)
    expect(stderr).toBe('usage: node main.js <pipeline.js>\n')
  })
})

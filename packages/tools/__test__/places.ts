/** Tools of a Sandbox, and of a SandboxClient. */
import { createTools, type ToolOptions, type ToolReply, type Tools } from '@nacre/tools'
import type { Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { it } from 'vitest'
import { withServer } from '../../../__test__/helpers/http.js'
import { withSandbox } from '../../../__test__/helpers/invariants.js'

export interface Place {
  tools: Tools
  /** Calls a tool. */
  call(name: string, input?: object): Promise<ToolReply>
  /** Calls a tool, and returns the lines of its reply. */
  lines(name: string, input?: object): Promise<string[]>
  sandbox: Sandbox | SandboxClient
  directory: string
}

type Test = (place: Place) => Promise<void>

async function run(sandbox: Sandbox | SandboxClient, directory: string, options: ToolOptions, test: Test) {
  await using tools = createTools(sandbox, options)
  const call = (name: string, input: object = {}) => tools.call(name, input)
  const lines = async (name: string, input?: object) => (await call(name, input)).text.split('\n')
  await test({ tools, call, lines, sandbox, directory })
}

export function withTools(test: Test, options: ToolOptions = {}): Promise<void> {
  return withSandbox(({ sandbox, directory }) => run(sandbox, directory, options, test))
}

/** A test for each kind of sandbox. */
export function itWithTools(name: string, test: Test, options: ToolOptions = {}): void {
  it(`${name} (Sandbox)`, () => withTools(test, options))
  it(`${name} (SandboxClient)`, () =>
    withServer(async ({ url, directory }) => {
      const client = new SandboxClient({ url })
      await run(client, directory, options, test)
      await client.destroy()
    }))
}

/** A header with its times replaced by `T`. */
export function timeless(text: string): string {
  return text.replace(/\b\d+(\.\d+)? m?s\b/g, 'T')
}

/**
 * The places that the contract is checked in: a sandbox in this process, and a client of one behind a real server.
 */
import { readFileSync } from 'node:fs'
import { serve } from '@nacre/server'
import type { Sandbox } from 'nacre'
import { type ClientOptions, SandboxClient } from 'nacre/client'
import { it } from 'vitest'
import { type Expectations, type Workplace, withSandbox } from '../helpers/invariants.js'
import { identity, listProcesses } from '../helpers/proc.js'

/** What both have in common; where the client has promises instead of values, `await` makes them the same. */
export type AnySandbox = Omit<Sandbox, 'capabilities'>

export interface ContractPlace extends Omit<Workplace, 'sandbox'> {
  sandbox: AnySandbox
}

/** A client of a server of this workplace, as the same type as the sandbox itself. */
export async function withClient(
  { sandbox }: Workplace,
  test: (client: SandboxClient, url: string) => Promise<void>,
  options: Partial<ClientOptions> = {},
): Promise<void> {
  const serving = await serve(sandbox, { port: 0 })
  const client = new SandboxClient({ url: serving.url, ...options })
  try {
    await test(client, serving.url)
  } finally {
    await client.destroy()
    await serving.close()
  }
}

/** Declares a test for a sandbox here, and for one behind a server. */
export function itHolds(
  name: string,
  test: (place: ContractPlace) => Promise<void>,
  expectations?: Expectations,
): void {
  it(`${name}, in this process`, () => withSandbox(test, expectations))
  it(`${name}, over HTTP`, () =>
    withSandbox(
      (workplace) =>
        withClient(workplace, (client) => test({ ...workplace, sandbox: client as unknown as AnySandbox })),
      expectations,
    ))
}

/** The identities of all processes that run. */
export function running(): string[] {
  return listProcesses().flatMap((entry) => (entry.state === 'Z' ? [] : [identity(entry)]))
}

/** That of the process whose number a command has written to a file: the number alone may become another's. */
export function processIn(file: string): string | undefined {
  const pid = readFileSync(file, 'utf8').trim()
  return running().find((name) => name.startsWith(`${pid}@`))
}

/** Bodies of tests in a copy-on-write workspace. */
import { Sandbox, type SandboxOptions } from 'nacre'
import { type Workplace, withSandbox } from './invariants.js'

type Act = (workplace: Workplace) => void | Promise<void>

export const copyOnWrite: SandboxOptions = { workspace: 'copy-on-write' }

export const hasGroups = (await new Sandbox().capabilities()).cgroup === 'v2'

/** Makes bodies for `it`: each gets a sandbox with a workspace over a directory that `prepare` has filled. */
export function inWorkspaceOver(prepare: Act, defaults: SandboxOptions = copyOnWrite) {
  return (test: Act, options: SandboxOptions = {}) =>
    (): Promise<void> =>
      withSandbox(
        async (workplace) => {
          await prepare(workplace)
          await test(workplace)
        },
        { options: { ...defaults, ...options } },
      )
}

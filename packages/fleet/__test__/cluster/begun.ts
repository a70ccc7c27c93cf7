/** Commands that have started, for tests that break something while they run. */
import type { SandboxClient } from 'nacre/client'

type Runner = Pick<SandboxClient, 'exec'>

/** Runs a command that prints a line when it has started. Resolves then, with that line and the pending result. */
export async function begun(
  client: Runner,
  command: string,
  signal?: AbortSignal,
): Promise<{ line: string; result: ReturnType<Runner['exec']> }> {
  let result: ReturnType<Runner['exec']> | undefined
  const line = await new Promise<string>((resolve, reject) => {
    result = client.exec(command, { onLine: resolve, ...(signal && { signal }) })
    result.catch(reject)
  })
  return { line, result: result as ReturnType<Runner['exec']> }
}

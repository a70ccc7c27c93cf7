/** A nacre session. */
import { Sandbox } from 'nacre'

export const name = 'nacre'

export async function open() {
  const sandbox = new Sandbox()
  return {
    run: (command) => sandbox.exec(command),
    close: () => sandbox.destroy(),
  }
}

/** What a person does on the console, by the same calls. */
import { SandboxClient } from 'nacre/client'

export async function playPerson(url, token) {
  const client = new SandboxClient({ url, token })
  const login = await client.getProcess('login')
  await login.waitForInput()
  const hold = await login.hold('a person')
  await hold.held.write('a password\n')
  await login.waitForExit()
  await client.destroy()
}

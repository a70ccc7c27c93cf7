/** `Bun.spawn` of a /bin/sh per command, with both outputs collected as text. Only on Bun. */

export const name = 'Bun.spawn'

export async function open() {
  return { run, close: async () => {} }
}

async function run(command) {
  const child = globalThis.Bun.spawn(['/bin/sh', '-c', command], { stdout: 'pipe', stderr: 'pipe' })
  const [stdout, stderr, exitCode] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { stdout, stderr, exitCode }
}

/** The error of a server that cannot listen, with a remedy. `option` is the name of the port. */
export function listenError(
  cause: Error,
  { host, port }: { host: string; port: number },
  option: string,
): Error {
  const { code } = cause as NodeJS.ErrnoException
  const text = `${option} ${port} cannot be used on ${host}: ${cause.message}; ${remedyOf(code, option)}`
  return Object.assign(new Error(text, { cause }), { code, syscall: 'listen' })
}

function remedyOf(code: string | undefined, option: string): string {
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return 'choose an address of this machine as the host'
  if (code === 'EACCES') return `choose a higher ${option}: this user may not use low ones`
  return `choose another ${option}, or 0 for a free port`
}

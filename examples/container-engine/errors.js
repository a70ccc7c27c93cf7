/** The container's errors, which its server checks with instanceof. They do not change. */
export class ShellTerminatedError extends Error {
  constructor(sessionId, exitCode) {
    super(`session ${sessionId}: the shell exited with code ${exitCode}`)
    this.exitCode = exitCode
  }
}

export class SessionDestroyedError extends Error {
  constructor(sessionId) {
    super(`session ${sessionId} was destroyed`)
  }
}

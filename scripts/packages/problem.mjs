/** A missing or wrong condition that one sentence explains, without a stack trace. */
export class Problem extends Error {}

/** Runs a program's main function; a problem becomes one line on standard error and exit code 1. */
export async function main(run) {
  try {
    await run()
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    console.error(error.message)
    process.exitCode = 1
  }
}

import { os } from './builtin.js'

/** The user's home, or / for a user missing from the user database, where os.homedir() throws. */
export function homeDirectory(): string {
  try {
    return os.homedir() || '/'
  } catch {
    return '/'
  }
}

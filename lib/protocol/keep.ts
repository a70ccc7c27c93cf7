/** How long a server keeps what survives a connection, in milliseconds: calls and uploads. */
export const MOST_KEEP_MS = 600_000

/** Errors of the operating system, as Node and Bun report them. */

/** The code of an error, such as `ECONNREFUSED` or a TLS library's own; '' if it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

/** Whether it is an error with this code: `ENOENT`, `EACCES`, … */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

/** Errors of the operating system, as Node and Bun report them. */

/** Whether it is an error with this code: `ENOENT`, `EACCES`, … */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

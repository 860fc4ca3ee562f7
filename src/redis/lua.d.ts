/** A Lua file is imported as its text. */

declare module '*.lua' {
  const text: string
  export default text
}

/** The files of the page are imported as their text. */

declare module '*/reference-style.css' {
  const text: string
  export default text
}

declare module '*/reference-script.js' {
  const text: string
  export default text
}

declare module '*/reference-icon.svg' {
  const text: string
  export default text
}

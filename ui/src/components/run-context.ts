import { createContext } from "react";

/** The run whose values are shown; large values are fetched from it. */
export const RunContext = createContext<string | null>(null);

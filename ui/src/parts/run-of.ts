import { createContext } from "react";

/** Whose values are shown: large ones are asked for there. */
export const RunOf = createContext<string | null>(null);

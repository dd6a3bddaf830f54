import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { beginSession } from "./api/session";
import { App } from "./app";
import { applyTheme } from "./lib/theme";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/shell.css";
import "./styles/components.css";
import "./styles/views.css";
import "./styles/run.css";

const access = beginSession();
applyTheme();
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App access={access} />
    </StrictMode>,
  );
}

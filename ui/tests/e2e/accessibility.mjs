// Accessibility checks that run inside the browser page.

/** Finds problems for screen reader and keyboard users. */
export function accessibilityProblems() {
  const found = [];
  const isVisible = (element) => element.checkVisibility({ checkOpacity: false, checkVisibilityCSS: true }) && element.getClientRects().length > 0;
  const describe = (element) => `<${element.tagName.toLowerCase()} class="${element.getAttribute("class") ?? ""}">`;
  const accessibleName = (element) => {
    const labelled = (element.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
    const labels = [...(element.labels ?? [])].map((label) => label.textContent).join(" ");
    return [element.getAttribute("aria-label"), labelled, labels, element.textContent, element.getAttribute("title")].map((text) => (text ?? "").trim()).find(Boolean) ?? "";
  };
  const headings = [...document.querySelectorAll("h1")].filter(isVisible);
  if (headings.length !== 1) found.push(`${headings.length} h1 headings instead of 1`);
  if ([...document.querySelectorAll("main")].filter(isVisible).length !== 1) found.push("not exactly one main element");
  for (const element of document.querySelectorAll("a[href], button, input, select, textarea, summary, [role=slider], [role=tab], [tabindex='0']")) {
    if (isVisible(element) && accessibleName(element) === "") found.push(`no accessible name: ${describe(element)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) found.push(`duplicate id ${id}`);
  for (const element of document.querySelectorAll("[aria-controls], [aria-labelledby]")) {
    for (const id of `${element.getAttribute("aria-controls") ?? ""} ${element.getAttribute("aria-labelledby") ?? ""}`.split(" ").filter(Boolean)) {
      if (document.getElementById(id) === null) found.push(`${describe(element)} refers to missing id ${id}`);
    }
  }
  return found;
}

/** Finds text with too little contrast: WCAG AA requires a ratio of 4.5, or 3 for large text. */
export function contrastProblems() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const cache = new Map();
  const colour = (text) => {
    if (!cache.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
      cache.set(text, [red, green, blue, alpha / 255]);
    }
    return cache.get(text);
  };
  const over = ([r, g, b, a], [r2, g2, b2]) => [r * a + r2 * (1 - a), g * a + g2 * (1 - a), b * a + b2 * (1 - a), 1];
  const background = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const layer = colour(getComputedStyle(at).backgroundColor);
      if (layer[3] > 0) layers.push(layer);
      if (layer[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const luminance = ([r, g, b]) => {
    const part = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const text = node.textContent.trim();
    if (text === "" || !element || element.closest("[aria-hidden=true] svg, svg, .visually-hidden, :disabled, option") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const [own, ground] = [colour(style.color), background(element)];
    const [high, low] = [luminance(over(own, ground)), luminance(ground)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) found.add(`${ratio.toFixed(2)} "${text.slice(0, 24)}" in .${element.getAttribute("class") ?? element.tagName}`);
  }
  return [...found];
}

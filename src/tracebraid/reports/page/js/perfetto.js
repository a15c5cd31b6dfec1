// Hands the timeline over to Perfetto's own page, which opens it without sending it anywhere.
// Protocol: https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui

const PERFETTO = "https://ui.perfetto.dev";
/** Between two questions whether Perfetto listens yet: what is sent before is lost. */
const AGAIN_MS = 200;
/** Its page answers within seconds where there is a network at all. */
const ANSWERS_WITHIN_MS = 30_000;

/** Binds the button. */
export function offer() {
  const button = /** @type {HTMLButtonElement} */ (document.getElementById("open-in-perfetto"));
  const state = /** @type {HTMLElement} */ (document.getElementById("perfetto-state"));
  button.addEventListener("click", async () => {
    if (button.getAttribute("aria-disabled") === "true") return;
    button.setAttribute("aria-disabled", "true");
    try {
      await handOver(button, (text) => (state.textContent = text));
    } catch (error) {
      state.textContent = error instanceof Error ? error.message : String(error);
    } finally {
      button.removeAttribute("aria-disabled");
    }
  });
}

/**
 * @param {HTMLButtonElement} button
 * @param {(text: string) => void} say
 */
async function handOver(button, say) {
  const { timeline = "", title = "" } = button.dataset;
  // At once: later, the browser no longer takes the click as the reason for a new tab.
  const tab = globalThis.open(PERFETTO);
  if (tab === null) throw new Error("The browser blocked the new tab. Allow this page to open tabs.");
  say("Writing the timeline...");
  const buffer = await bytesOf(timeline);
  say("Waiting for Perfetto...");
  await listening(tab);
  tab.postMessage({ perfetto: { buffer, title, fileName: timeline } }, PERFETTO, [buffer]);
  say("The timeline is open in the other tab.");
}

/** @param {string} address */
async function bytesOf(address) {
  const response = await fetch(address).catch(() => null);
  if (response === null) throw new Error("The server has ended. Start it again: tracebraid view");
  if (!response.ok) throw new Error(await response.text());
  return await response.arrayBuffer();
}

/**
 * Resolves when the tab's page listens.
 *
 * @param {Window} tab
 * @returns {Promise<void>}
 */
function listening(tab) {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearInterval(again);
      clearTimeout(limit);
      removeEventListener("message", heard);
    };
    /** @param {MessageEvent} event */
    const heard = (event) => {
      if (event.source !== tab || event.origin !== PERFETTO || event.data !== "PONG") return;
      end();
      resolve();
    };
    const limit = setTimeout(() => {
      end();
      reject(
        new Error(`${PERFETTO} does not answer: the browser cannot reach it. Save the timeline instead.`),
      );
    }, ANSWERS_WITHIN_MS);
    // To any origin: it says nothing, and while the tab loads its origin is another.
    const again = setInterval(() => tab.postMessage("PING", "*"), AGAIN_MS);
    addEventListener("message", heard);
  });
}

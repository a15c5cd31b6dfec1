// Hands the page's modules to the browser, and starts the first. An import map must be there before any module is
// loaded: so this is no module. The page's policy knows the map's text by its hash.
//
// The packed modules take the place of MODULES, so that the hash of this script covers them: nothing else in the HTML
// can name others. By `strict-dynamic` a script that stands in the HTML may import nothing, but one that it adds may:
// so this script adds a copy of itself, which has the same hash.
{
  const own = document.currentScript;

  /** @param {string} text base64 of gzip */
  const unpacked = (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  /** @param {string} text an import map */
  const start = (text) => {
    const map = document.createElement("script");
    map.type = "importmap";
    map.textContent = text;
    document.head.append(map);
    return import("tracebraid/main.js");
  };

  /** @param {unknown} error */
  const fail = (error) => {
    console.error(error);
    for (const element of document.querySelectorAll("[data-chart], [data-block]")) {
      if (!(element instanceof HTMLElement)) continue;
      element.dataset.state = "failed";
      const text = document.createElement("p");
      text.className = "failed";
      text.textContent =
        "This browser cannot run the scripts of this page: open it in a newer one (from 2023 on).";
      element.querySelector(".drawing, .grid")?.append(text);
    }
  };

  if (own?.dataset.copy === undefined) {
    const copy = document.createElement("script");
    copy.dataset.copy = "";
    copy.textContent = own?.textContent ?? "";
    document.body.append(copy);
  } else {
    Promise.resolve("MODULES").then(unpacked).then(start).catch(fail);
  }
}

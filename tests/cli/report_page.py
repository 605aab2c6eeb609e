# SPDX-License-Identifier: Apache-2.0
"""The pages of test_report.sh: their policy and size, and how they look and behave in Chromium (where there is one, with
its driver and selenium).

    report_page.py FOLDER

PAGE_SCREENSHOTS names a folder for pictures of them, to be looked at.
"""
import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None

PAGES = {path.stem: path for path in sorted(pathlib.Path(sys.argv.pop()).resolve().glob("*.html"))}


class Text(unittest.TestCase):
    def test_policy_and_size(self):
        for name, path in PAGES.items():
            page = path.read_text(encoding="utf-8")
            self.assertLess(len(page), 1 << 20, name)
            policy = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
            for kind in ("style", "script"):
                text = re.search(f"<{kind}>(.*?)</{kind}>", page, re.S)[1]
                digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
                self.assertIn(f"{kind}-src 'sha256-{digest}'", policy)
            self.assertEqual(re.findall(r"(?:https?:)?//[a-z]", re.sub(r"^ *//.*$", "", page, flags=re.M)), [])
            self.assertEqual(page.count("<script"), 1)
            self.assertNotIn("<img", page)

    def test_processes_in_a_narrow_window(self):
        """At 360 pixels the table is blocks, which are as wide as the window and break words: it cannot be too wide."""
        page = PAGES["several"].read_text(encoding="utf-8")
        style = re.search("<style>(.*?)</style>", page, re.S)[1]
        rules = []
        for width, inside in re.findall(r"@media \(max-width: ([\d.]+)rem\) \{(.*?\})\s*\}", style, re.S):
            rules += re.findall(r"([^{}]+)\{([^}]*)\}", inside) if 16 * float(width) >= 360 else []
        for name in (".stacks", ".stacks tbody", ".stacks tr", ".stacks td"):
            own = " ; ".join(text for names, text in rules if name in (each.strip() for each in names.split(",")))
            self.assertIn("display: block", own, name)
            self.assertIn("overflow-wrap: anywhere", own, name)
        for names, text in re.findall(r"([^{}]+)\{([^{}]*)\}", style):
            if {each.strip() for each in names.split(",")} & {"*", "body", "main", "table", "tbody", "tr", "td"} or \
                    ".stacks" in names:
                self.assertNotRegex(text, r"(min-width|(?<![-\w])width|nowrap|white-space|float|position)", names)
        table = re.search('<h2>Processes</h2>.*?<table class="stacks">(.*?)</table>', page, re.S)[1]
        head = re.findall('<th scope="col">([^<]*)</th>', table)
        rows = re.findall("<tr>(<td.*?)</tr>", table)
        self.assertEqual(len(head), 6)
        self.assertGreater(len(rows), 2)
        for row in rows:
            self.assertEqual(re.findall('<td data-name="([^"]*)">', row), head)
            self.assertEqual(row.count("<td"), len(head))

    def test_answers(self):
        page = PAGES["first"].read_text(encoding="utf-8")
        self.assertIn("&lt;img src=x onerror=&quot;document.title=&#39;executed&#39;&quot;&gt;", page)
        self.assertRegex(page, '<mark class="(right|both)">Oslo</mark>')


@unittest.skipUnless(webdriver and shutil.which("chromium") and shutil.which("chromedriver"),
                     "needs chromium, chromium-driver and python3-selenium")
class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        options.binary_location = shutil.which("chromium")
        cls.driver = webdriver.Chrome(options=options,
                                      service=webdriver.chrome.service.Service(shutil.which("chromedriver")))
        cls.addClassCleanup(cls.driver.quit)

    def open(self, name: str, theme="light", width=1200):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": theme}]})
        self.driver.get(PAGES[name].as_uri())

    def picture(self, name: str):
        if "PAGE_SCREENSHOTS" in os.environ:
            size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
            taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
            pathlib.Path(os.environ["PAGE_SCREENSHOTS"], name + ".png").write_bytes(base64.b64decode(taken["data"]))

    def test_pages(self):
        """Both themes and a narrow window: nothing is asked for, reported, executed or cut off."""
        grounds = set()
        for name, path in PAGES.items():
            for theme, width in (("light", 1200), ("dark", 1200), ("light", 360)):
                with self.subTest(name=name, theme=theme, width=width):
                    self.driver.get_log("performance")
                    self.open(name, theme, width)
                    self.picture(f"{name}-{theme}-{width}")
                    self.assertNotEqual(self.driver.title, "executed")
                    wide = self.driver.execute_script("return document.documentElement.scrollWidth")
                    self.assertLessEqual(wide, width)
                    grounds.add((theme, self.driver.execute_script("return getComputedStyle(document.body).backgroundColor")))
                    asked = [json.loads(entry["message"])["message"]["params"]["request"]["url"]
                             for entry in self.driver.get_log("performance")
                             if '"Network.requestWillBeSent"' in entry["message"]]
                    self.assertEqual([url for url in asked if url != path.as_uri() and not url.startswith("data:")], [])
                    self.assertEqual(self.driver.get_log("browser"), [])
        self.assertEqual(len(grounds), 2)

    def test_values_under_the_pointer(self):
        self.open("first")
        chart = self.driver.find_element(By.CSS_SELECTOR, ".chart")
        now = chart.find_element(By.CSS_SELECTOR, ".now")
        points = chart.find_element(By.CSS_SELECTOR, "g[data-points]").get_attribute("data-points").split()
        self.assertEqual(now.text, "")
        drawing = chart.find_element(By.CSS_SELECTOR, "svg[role=img]")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", drawing)
        webdriver.ActionChains(self.driver).move_to_element(drawing).perform()
        shown = re.fullmatch(r"(\S+) update (\d+)", now.text)
        values = dict(zip(points[::2], points[1::2]))
        self.assertEqual(values[shown[2]], shown[1])
        self.assertRegex(chart.find_element(By.CSS_SELECTOR, ".cursor").get_attribute("d"), r"^M[\d.]+ 0v1000$")

    def test_values_by_keys(self):
        self.open("several")
        chart = self.driver.find_element(By.CSS_SELECTOR, ".chart")
        chart.send_keys(Keys.ARROW_RIGHT)
        words = chart.find_element(By.CSS_SELECTOR, ".now").text
        for name in ("first", "second", "trainer_state.json"):
            self.assertIn(name, words)
        self.assertTrue(words.endswith("update 1"), words)
        chart.send_keys(Keys.ARROW_RIGHT)
        self.assertTrue(chart.find_element(By.CSS_SELECTOR, ".now").text.endswith("update 2"))


unittest.main()

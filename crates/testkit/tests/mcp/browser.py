"""A browser whose person agrees to everything: it follows redirects, also the last one to us."""
import sys
import urllib.request

urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=60).read()
